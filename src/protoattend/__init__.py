"""Classifiers that decide from real examples: ProtoAttend, attention-based prototypical learning, for PyTorch.

>>> from protoattend import ProtoAttendClassifier
>>> clf = ProtoAttendClassifier()
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protoattend.baselines.plain import PlainClassifier as PlainClassifier
    from protoattend.classifier import ProtoAttendClassifier as ProtoAttendClassifier
    from protoattend.config import Recipe as Recipe
    from protoattend.core.model import ProtoAttend as ProtoAttend
    from protoattend.core.schedule import ExponentialDecay as ExponentialDecay
    from protoattend.core.schedule import OneCycle as OneCycle
    from protoattend.data.images import ImageFiles as ImageFiles
    from protoattend.data.readers import read_data as read_data
    from protoattend.database.store import CandidateDatabase as CandidateDatabase
    from protoattend.datasets.paper import paper_settings as paper_settings
    from protoattend.encoders.preparation import ImagePreparation as ImagePreparation
    from protoattend.encoders.pretrained import fine_tuned as fine_tuned
    from protoattend.encoders.pretrained import frozen as frozen
    from protoattend.encoders.test_time_augmentation import TestTimeAugmentation as TestTimeAugmentation
    from protoattend.training.checkpoint import Checkpoints as Checkpoints

__version__ = "0.1.0"

# Threads of torch that wait for one another do so by spinning, which beside other busy processes makes a training many
# times slower; after few spins they sleep. It is read when torch is loaded, so it must be said before.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

# Imported when first used, so that `import protoattend` costs nothing.
_HOMES = {
    "ProtoAttendClassifier": "protoattend.classifier",
    "ProtoAttend": "protoattend.core.model",
    "PlainClassifier": "protoattend.baselines.plain",
    "Recipe": "protoattend.config",
    "OneCycle": "protoattend.core.schedule",
    "ExponentialDecay": "protoattend.core.schedule",
    "CandidateDatabase": "protoattend.database.store",
    "ImageFiles": "protoattend.data.images",
    "ImagePreparation": "protoattend.encoders.preparation",
    "fine_tuned": "protoattend.encoders.pretrained",
    "frozen": "protoattend.encoders.pretrained",
    "TestTimeAugmentation": "protoattend.encoders.test_time_augmentation",
    "paper_settings": "protoattend.datasets.paper",
    "read_data": "protoattend.data.readers",
    "Checkpoints": "protoattend.training.checkpoint",
}
__all__ = [
    "CandidateDatabase",
    "Checkpoints",
    "ExponentialDecay",
    "ImageFiles",
    "ImagePreparation",
    "OneCycle",
    "PlainClassifier",
    "ProtoAttend",
    "ProtoAttendClassifier",
    "Recipe",
    "TestTimeAugmentation",
    "__version__",
    "fine_tuned",
    "frozen",
    "paper_settings",
    "read_data",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'protoattend' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
