"""Attention to the candidates that another search engine finds: exact among them, with a bound on what it misses.

An engine needs one method, `search`. Here are two: faiss, in memory, and Milvus, embedded or on a cluster.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from protoattend.database.attention import Attention, attention_of, joined
from protoattend.database.flat_mass import Flat, total_of_nearest
from protoattend.database.found import decisive, flat_reading_of_found, softmax_of_found, sparsemax_of_found
from protoattend.database.searchable import Searchable
from protoattend.errors import MissingExtra, UserError

if TYPE_CHECKING:
    from protoattend.database.store import CandidateDatabase

QUERIES = 256
FLAT = 20_000  # candidates up to which faiss compares all of them
BATCH = 5_000  # rows of one insert into Milvus


class Neighbours(Protocol):
    """Any engine that finds candidates by the inner product of their keys with a query."""

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return indices `(B, k)` of the database and inner products `(B, k)`, largest first; -1 where none is left."""


class Search(Protocol):
    """How a database attends to its candidates: the module `search`, exactly, or an `Approximation`."""

    def attend(
        self,
        queries: Tensor,
        candidates: Searchable,
        *,
        normalize: str,
        temperature: float = 1.0,
        own: Tensor | None = None,
        top: int | None = None,
        flat: Flat | None = None,
    ) -> Attention: ...


class FaissNeighbours:
    """Candidates found by a faiss index over a database's keys.

    Parameters
    ----------
    index : faiss.Index
        An index by inner product whose ids are indices of the database; `build` makes one.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> engine = FaissNeighbours.build(clf.database_)
    >>> clf.database_ = clf.database_.approximate(engine, k=100)
    >>> clf.predict(X[:2]).shape
    (2,)
    """

    def __init__(self, index: Any) -> None:
        self.index = index

    @classmethod
    def build(cls, database: CandidateDatabase, factory: str | None = None, *, n_probe: int = 16) -> FaissNeighbours:
        """Index the keys of a database.

        Parameters
        ----------
        database : CandidateDatabase
            Whose keys are indexed.
        factory : str, default=None
            faiss's description of an index, such as "IVF256,Flat". None compares all of up to 20,000 keys, and of more
            those in the `n_probe` nearest of about 4 sqrt(D) cells.
        n_probe : int, default=16
            How many cells of an "IVF" index are searched.

        Returns
        -------
        neighbours : FaissNeighbours

        Raises
        ------
        MissingExtra
            If faiss is not installed.
        UserError
            If `factory` does not describe an index.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> engine = FaissNeighbours.build(clf.database_, "HNSW16,Flat")
        >>> indices, scores = engine.search(clf.database_.rows.queries[:2].numpy(), k=5)
        >>> indices.shape, scores.shape
        ((2, 5), (2, 5))
        """
        try:
            import faiss
        except ImportError:
            raise MissingExtra("faiss-cpu", "ann", "FaissNeighbours") from None
        rows = database.rows
        keys = np.ascontiguousarray(rows.keys.numpy(), dtype=np.float32)
        factory = factory or ("Flat" if len(keys) <= FLAT else f"IVF{int(4 * math.sqrt(len(keys)))},Flat")
        try:
            index = faiss.index_factory(keys.shape[1], f"IDMap2,{factory}", faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise UserError(f"factory must describe a faiss index, but {factory!r} does not ({error}).") from None
        index.train(keys)
        index.add_with_ids(keys, np.ascontiguousarray(rows.ids, dtype=np.int64))
        if factory.startswith("IVF"):
            faiss.extract_index_ivf(index).nprobe = n_probe
        return cls(index)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return indices `(B, k)` of the database and inner products `(B, k)`, largest first."""
        scores, indices = self.index.search(np.ascontiguousarray(queries, dtype=np.float32), k)
        return indices, scores


class MilvusNeighbours:
    """Candidates found by a collection of keys in Milvus, embedded or on a cluster.

    Parameters
    ----------
    uri : path or str
        A file that pymilvus itself manages, or the address of a cluster.
    collection : str, default="candidates"
        The name of the collection.

    Examples
    --------
    >>> engine = MilvusNeighbours.build(clf.database_, "keys.db")  # doctest: +SKIP
    >>> clf.database_ = clf.database_.approximate(engine)  # doctest: +SKIP
    """

    def __init__(self, uri: str | os.PathLike[str], *, collection: str = "candidates") -> None:
        try:
            from pymilvus import MilvusClient
        except ImportError:
            raise MissingExtra("pymilvus", "milvus", "MilvusNeighbours") from None
        self.client = MilvusClient(os.fspath(uri))
        self.collection = collection

    @classmethod
    def build(
        cls, database: CandidateDatabase, uri: str | os.PathLike[str], *, collection: str = "candidates"
    ) -> MilvusNeighbours:
        """Write all keys of a database into a new collection.

        Parameters
        ----------
        database : CandidateDatabase
            Whose keys are written.
        uri : path or str
            A file, or the address of a cluster.
        collection : str, default="candidates"
            The name of the collection, which must be new.

        Returns
        -------
        neighbours : MilvusNeighbours

        Raises
        ------
        MissingExtra
            If pymilvus is not installed.
        UserError
            If the collection exists.

        Examples
        --------
        >>> MilvusNeighbours.build(clf.database_, "http://milvus.example:19530")  # doctest: +SKIP
        """
        made = cls(uri, collection=collection)
        if made.client.has_collection(collection):
            raise UserError(
                f"collection must be a new one, but {collection!r} exists at {uri}; open it with MilvusNeighbours(uri) "
                "or choose another name."
            )
        rows = database.rows
        made.client.create_collection(
            collection, dimension=rows.keys.shape[1], metric_type="IP", consistency_level="Strong"
        )
        for start in range(0, len(rows), BATCH):
            ids, keys = rows.ids[start : start + BATCH].tolist(), rows.keys[start : start + BATCH].float().tolist()
            made.client.insert(collection, [{"id": i, "vector": key} for i, key in zip(ids, keys, strict=True)])
        return made

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return indices `(B, k)` of the database and inner products `(B, k)`, largest first; -1 where none is left."""
        indices = np.full((len(queries), k), -1, dtype=np.int64)
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        found = self.client.search(self.collection, data=queries.astype(np.float32).tolist(), limit=k)
        for row, hits in enumerate(found):
            indices[row, : len(hits)] = [hit["id"] for hit in hits]
            scores[row, : len(hits)] = [hit["distance"] for hit in hits]
        return indices, scores

    def close(self) -> None:
        """Close the connection."""
        self.client.close()


@dataclass(frozen=True)
class Approximation:
    """An engine, how many candidates it is asked for, and the database's indices; attention to those found is exact."""

    neighbours: Neighbours
    k: int
    ids: np.ndarray

    def attend(
        self,
        queries: Tensor,
        candidates: Searchable,
        *,
        normalize: str,
        temperature: float = 1.0,
        own: Tensor | None = None,
        top: int | None = None,
        flat: Flat | None = None,
    ) -> Attention:
        """Return the attention among those found; `missed` bounds that of others if none scores above the last found.

        The arguments are those of `search.attend`.
        """
        one, parts = math.sqrt(queries.shape[1]) * temperature, []
        for start in range(0, len(queries), QUERIES):
            some = queries[start : start + QUERIES]
            found = self._found(some, candidates, None if own is None else own[start : start + QUERIES])
            scores = found.scores(some.double() / one, candidates.keys)
            weigh = softmax_of_found if normalize == "softmax" else sparsemax_of_found
            deciding = decisive(scores, found.positions, candidates)
            weights, missed = weigh(deciding, found.counts, found.outside)
            inside = weights > 0
            part = attention_of(
                inside.nonzero()[:, 0],
                found.positions[inside],
                weights[inside].to(queries.dtype),
                candidates,
                largest_score=deciding.amax(1).to(queries.dtype),
                top=top,
                missed=missed.to(queries.dtype),
            )
            if flat is not None and normalize == "sparsemax":
                beside, width = flat.beside(temperature), flat.width
                if width is not None:
                    scores = found.scores(some[:, :width].double() / one, candidates.keys[:, :width])
                mass, total = flat_reading_of_found(
                    scores / beside.temperature,
                    found.counts,
                    found.outside,
                    candidates.labels[found.positions],
                    part.logits.shape[1],
                )
                total = total if width is None else total_of_nearest(part, beside)
                part = replace(part, flat_mass=mass, flat_total=total)
            parts.append(part)
        return joined(parts)

    def _found(self, queries: Tensor, candidates: Searchable, own: Tensor | None) -> _Found:
        ids, given = self.ids, candidates.sample_weight
        every = (torch.ones(1).expand(len(ids)) if given is None else given).double()
        indices, _ = self.neighbours.search(queries.numpy(), self.k + (own is not None))
        places = np.minimum(np.searchsorted(ids, indices), len(ids) - 1)
        positions, there = torch.from_numpy(places), torch.from_numpy(ids[places] == indices)
        others = every.sum().expand(len(queries))
        if own is not None:
            there &= positions != own[:, None]
            others = others - torch.where(own >= 0, every[own], 0.0)
        if not bool(there.any(1).all()):
            raise UserError(
                "the engine must find at least one candidate of the database for every query, but for "
                f"{int((~there.any(1)).sum())} it found none; build it again from this database, or search wider."
            )
        counts = every[positions] * there
        return _Found(positions, there, counts, (others - counts.sum(1)).clamp(min=0))


@dataclass(frozen=True)
class _Found:
    """What an engine found: positions `(B, k)`, which are `there`, how often each counts, and all others `(B,)`."""

    positions: Tensor
    there: Tensor
    counts: Tensor
    outside: Tensor

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores `(B, k)` by the keys themselves: those of the engine may be rounded."""
        scores = torch.einsum("bd,bkd->bk", queries, keys[self.positions].double())
        return scores.masked_fill(~self.there, -torch.inf)


def missed_mass(database: CandidateDatabase, neighbours: Neighbours, queries: Tensor, *, k: int = 256) -> Tensor:
    """Return how much weight an engine misses, by exact search.

    Parameters
    ----------
    database : CandidateDatabase
        The whole, exact one.
    neighbours : Neighbours
        An engine built from it.
    queries : Tensor of shape (B, d_att)
        Such as `database.rows.queries`.
    k : int, default=256
        How many candidates the engine is asked for.

    Returns
    -------
    missed : Tensor of shape (B,)
        For each query, the sum of p_ij over the prototypes that are not found.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from protoattend import ProtoAttendClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
    >>> engine = FaissNeighbours.build(clf.database_)
    >>> missed_mass(clf.database_, engine, clf.database_.rows.queries[:3], k=100)
    tensor([0., 0., 0.])
    """
    indices, _ = neighbours.search(queries.numpy(), k)
    ids = database.rows.ids
    missed = [
        float(weights[torch.from_numpy(~np.isin(ids[positions.numpy()], row))].sum())
        for (positions, weights), row in zip(database.attend(queries).per_query(), indices, strict=True)
    ]
    return torch.tensor(missed)
