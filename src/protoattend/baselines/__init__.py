"""The methods ProtoAttend is compared with, all on one plain encoder.

>>> from protoattend.baselines import Network, TrustScore
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protoattend.baselines.deep_knn import DeepKnn as DeepKnn
    from protoattend.baselines.dropout import MonteCarloDropout as MonteCarloDropout
    from protoattend.baselines.ensemble import DeepEnsemble as DeepEnsemble
    from protoattend.baselines.influence import InfluenceFunctions as InfluenceFunctions
    from protoattend.baselines.msp import MaxProbability as MaxProbability
    from protoattend.baselines.nearest import NearestNeighbours as NearestNeighbours
    from protoattend.baselines.network import Network as Network
    from protoattend.baselines.plain import PlainClassifier as PlainClassifier
    from protoattend.baselines.protocols import ConfidenceMethod as ConfidenceMethod
    from protoattend.baselines.protocols import ExampleMethod as ExampleMethod
    from protoattend.baselines.representer import RepresenterPoints as RepresenterPoints
    from protoattend.baselines.tracin import TracIn as TracIn
    from protoattend.baselines.trust_score import TrustScore as TrustScore

# Imported when first used: a name costs its own file and what that needs.
_HOMES = {
    "ConfidenceMethod": "protocols",
    "DeepEnsemble": "ensemble",
    "DeepKnn": "deep_knn",
    "ExampleMethod": "protocols",
    "InfluenceFunctions": "influence",
    "MaxProbability": "msp",
    "MonteCarloDropout": "dropout",
    "NearestNeighbours": "nearest",
    "Network": "network",
    "PlainClassifier": "plain",
    "RepresenterPoints": "representer",
    "TracIn": "tracin",
    "TrustScore": "trust_score",
}
__all__ = [
    "ConfidenceMethod",
    "DeepEnsemble",
    "DeepKnn",
    "ExampleMethod",
    "InfluenceFunctions",
    "MaxProbability",
    "MonteCarloDropout",
    "NearestNeighbours",
    "Network",
    "PlainClassifier",
    "RepresenterPoints",
    "TracIn",
    "TrustScore",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
