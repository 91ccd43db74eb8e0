"""The side of a database that is saved: its folder, the log of its edits, and shards."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from protoattend.arguments import check_path
from protoattend.data.inputs import ImageInputs
from protoattend.database.encode import decision_weight
from protoattend.database.forgetting import ForgetReport, report_of
from protoattend.database.mutex import Mutex
from protoattend.database.previews import with_excerpts
from protoattend.database.rows import Indices
from protoattend.database.state import State
from protoattend.database.storage import edit_log as edits
from protoattend.database.storage import folder as on_disk
from protoattend.database.variants import VariantMethods
from protoattend.errors import UserError
from protoattend.folders import alone, read_whole


class SavingMethods(VariantMethods):
    """A database in its folder; named first is what is needed of the whole one."""

    fingerprint: str
    _writing: Mutex
    _home: edits.Home | None
    _unsaved: tuple[edits.Edit, ...]
    remove: Callable[[Indices], None]

    def save(self, folder: str | os.PathLike[str], *, excerpts: bool = False) -> None:
        """Write the database into a folder, wholly or not at all.

        Parameters
        ----------
        folder : path
            A new or empty folder, or one of a saved database, which is replaced.
        excerpts : bool, default=False
            Whether to leave the samples out: in their place the folder has thumbnails of images, with the paths of
            files, and the first 200 characters of texts. A table's rows are kept as they are.

        Raises
        ------
        UserError
            If the folder holds other files.
        StaleDatabase
            If the model has changed since the database was built.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save(folder)
        ...     opened = CandidateDatabase.open(folder, clf.model_, inputs=clf.inputs_, classes=clf.database_.classes)
        >>> len(opened)
        178
        """
        self._require_current_model()
        self._write(Path(check_path(folder, "folder")), self._state, excerpts=excerpts)

    def save_edits(self) -> int:
        """Append the edits since `open` to the log in the database's folder.

        The samples of rows that were removed stay in its files until `compact` or `forget` writes them again.

        Returns
        -------
        n_edits : int
            How many were written, each wholly or not at all.

        Raises
        ------
        UserError
            If the database was not opened from a folder, or another process has edited the folder since; the edits then
            stay unsaved. Processes that write at once wait for one another.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save(folder)
        ...     opened = CandidateDatabase.open(folder, clf.model_, **read)
        ...     opened.remove(0)
        ...     opened.save_edits(), len(CandidateDatabase.open(folder, clf.model_, **read))
        (1, 177)
        """
        with self._writing:
            home, unsaved = self._require_home(), self._unsaved
            with alone(home.folder):
                for edit in unsaved:
                    home = self._home = edits.append(home, edit)
                    self._unsaved = self._unsaved[1:]
            return len(unsaved)

    def compact(self) -> None:
        """Write the folder again with all edits in its columns, so that it opens without a log; wholly or not at all.

        Raises
        ------
        UserError
            If the database was not opened from a folder, or another process has edited the folder since.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save(folder)
        ...     opened = CandidateDatabase.open(folder, clf.model_, **read)
        ...     opened.remove(0)
        ...     opened.compact()
        ...     len(CandidateDatabase.open(folder, clf.model_, **read))
        177
        """
        with self._writing:
            home = self._require_home()
            self._require_current_model()
            with alone(home.folder):
                edits.require_unchanged(home)
                self._write(home.folder, self._state, excerpts=False)
                self._home, self._unsaved = edits.Home.of(home.folder), ()
                meta = on_disk.read_folder_meta(home.folder)
                self._become(on_disk.read_folder(home.folder, meta, decision_weight(self.model)), meta["next_id"])

    def forget(self, indices: Indices) -> ForgetReport:
        """Remove candidates for good: also from the database's folder, which is written again without them.

        Parameters
        ----------
        indices : int or sequence of int
            What the rows are called.

        Returns
        -------
        report : ForgetReport
            What rested on them, and what still depends on them: above all the weights that were trained with them.

        See Also
        --------
        remove : Leaves the samples in the folder, after `save_edits` too, until `compact`.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> clf.database_.forget(0).indices
        (0,)
        """
        with self._writing:
            before = self.snapshot()
            self.remove(indices)
            if self._home is not None:
                self.compact()
            return report_of(before, self, gone_from_disk=self._home is not None)

    def verify(self) -> None:
        """Read every file of the database's folder and compare its checksum.

        Raises
        ------
        BadFile
            If a file does not match.
        UserError
            If the database was not opened from a folder.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save(folder)
        ...     opened = CandidateDatabase.open(folder, clf.model_, **read)
        ...     opened.verify()
        """
        folder, decision = self._require_home().folder, decision_weight(self.model)

        def verify() -> None:
            on_disk.verify_folder(folder, decision)
            edits.verify_log(folder, decision)

        read_whole(folder, verify)

    def save_shard(self, folder: str | os.PathLike[str], number: int, of: int) -> None:
        """Write the database as one of several shards; many processes can do so at once, each its own.

        Parameters
        ----------
        folder : path
            Where all shards are written.
        number : int
            Which shard this is, from 0. Shards follow one another as the rows of X do.
        of : int
            How many there are.

        See Also
        --------
        merge : Makes one database of all shards.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> read = {"inputs": clf.inputs_, "classes": clf.database_.classes}
        >>> with TemporaryDirectory() as folder:
        ...     for number, rows in enumerate([slice(0, 100), slice(100, None)]):
        ...         part = CandidateDatabase.build(clf.model_, X[rows], y[rows], **read)
        ...         part.save_shard(Path(folder, "shards"), number, of=2)
        ...     CandidateDatabase.merge(Path(folder, "shards"), Path(folder, "whole"))
        ...     CandidateDatabase.open(Path(folder, "whole"), clf.model_, **read)
        CandidateDatabase(178 candidates of 3 classes)
        """
        self.save(Path(check_path(folder, "folder")) / on_disk.shard_name(number, of))

    @staticmethod
    def merge(shards: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
        """Make one database of all shards in a folder.

        Parameters
        ----------
        shards : path
            Where `save_shard` wrote all of them.
        folder : path
            A new or empty folder for the whole; indices go on from shard to shard.

        Raises
        ------
        BadFile
            If shards are missing or of several models.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from protoattend import CandidateDatabase
        >>> from sklearn.datasets import load_wine
        >>> from protoattend import ProtoAttendClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = ProtoAttendClassifier(max_epochs=2, random_state=0, verbose=0).fit(X, y)
        >>> with TemporaryDirectory() as folder:
        ...     clf.database_.save_shard(Path(folder, "shards"), 0, of=1)
        ...     CandidateDatabase.merge(Path(folder, "shards"), Path(folder, "whole"))
        ...     Path(folder, "whole", "meta.json").exists()
        True
        """
        on_disk.merge_shards(Path(check_path(shards, "shards")), Path(check_path(folder, "folder")))

    def relocate(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> int:
        """Take candidates kept as image files from another folder: the files have moved.

        Parameters
        ----------
        old, new : path
            The folder they were under, and the one they are under now.

        Returns
        -------
        n_moved : int
            How many candidates there are under it.

        Raises
        ------
        UserError
            If no candidate is a file under `old`, or one is not there under `new`.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from PIL import Image
        >>> from protoattend import ImageFiles, ProtoAttendClassifier
        >>> with TemporaryDirectory() as folder:
        ...     old, new = Path(folder, "old"), Path(folder, "new")
        ...     old.mkdir()
        ...     for i in range(20):
        ...         Image.fromarray(np.full((8, 8), 12 * i, dtype=np.uint8)).save(old / f"{i}.png")
        ...     images = ImageFiles.from_paths(sorted(old.iterdir()), ["a", "b"] * 10)
        ...     clf = ProtoAttendClassifier(max_epochs=1, random_state=0, verbose=0).fit(images)
        ...     _ = old.rename(new)
        ...     clf.database_.relocate(old, new)
        20
        """
        with self._writing:
            edit = edits.Relocated.checked(self._rows, old, new)
            count = len(edit.moved(self._rows))
            self._edit(edit)
            if isinstance(self.inputs, ImageInputs) and self.inputs.roots is not None:
                self.inputs = replace(self.inputs, roots=(*self.inputs.roots, edit.new))  # a person has named it
        return count

    def _require_home(self) -> edits.Home:
        if self._home is None:
            raise UserError(
                "only a database opened from a folder has a log of edits and checksums, but this one is in memory "
                "alone; call save(folder) and CandidateDatabase.open(folder, ...)."
            )
        return self._home

    def _edit(self, edit: edits.Edit) -> None:
        """Apply an edit, in the thread that may write."""
        rows = edit.apply(self._state.laid_out, decision_weight(self.model))
        self._become(rows, int(rows.ids[-1]) + 1 if isinstance(edit, edits.Added) else self._next_id)
        self._unsaved += () if self._home is None else (edit,)

    def _write(self, folder: Path, state: State, *, excerpts: bool) -> None:
        columns = on_disk.columns_of(state.rows)
        if excerpts:
            columns = with_excerpts(columns, state.rows, self.inputs)
        rounding = None if state.rounding is None else state.rounding.state()
        meta = {"fingerprint": self.fingerprint, "next_id": state.next_id, "rounding": rounding}
        meta |= {"readings": None if state.readings is None else state.readings.state()}
        on_disk.write_folder(folder, len(state.rows), columns, meta)
