"""npy and npz files through ``angpn label`` and ``predict``."""

import io
import struct
import zipfile

import numpy as np
import scipy.sparse

from fuzz import good_files
from fuzz.commands import make_command, run_command
from fuzz.mutations import damaged, hostile_array, pick

DTYPES = (
    *("f2", "f4", "f8", "f8", "f8", ">f4", ">f8", "g", "i1", "u8", ">i4", "?"),
    *("c16", "O", "S5", "U5", "M8[s]", "m8[D]", "V4"),
)


def make(seed, folder):
    """Write an array file with something wrong."""
    generator = np.random.default_rng(seed)
    suffix = pick(generator, [".npy", ".npz"])
    path = folder / f"rows{suffix}"
    array = _hostile(good_files.rows(), generator)
    if suffix == ".npy":
        content = _npy(array, generator)
    elif generator.random() < 0.25:
        content = _sparse(generator)
    else:
        content = _npz(array, generator)
    path.write_bytes(damaged(content, generator) if generator.random() < 0.2 else content)
    options = ("--labels", str(good_files.label_file()), *pick(generator, [("--impute",), (), ()]))
    return make_command(path, "array", options, generator)


run = run_command


def _hostile(array, generator):
    action = generator.integers(12)
    if action <= 3:
        with np.errstate(all="ignore"):
            return hostile_array(array, generator)
    if action <= 6:
        dtype = np.dtype(pick(generator, DTYPES))
        with np.errstate(all="ignore"):
            return array.astype("i8").astype(dtype) if dtype.kind in "Mm" else array.astype(dtype)
    return pick(
        generator,
        [
            array,
            np.asfortranarray(array),
            array[0, 0],
            array[None],
            array[:1],
            array[:, :1],
            np.zeros((0, 5)),
            np.zeros((24, 0)),
            array * pick(generator, [1e-300, 1e-40, 1e30, 1e200, 1e300, 0]),
            np.where(array > 1, pick(generator, [np.nan, np.inf, -np.inf]), array),
            np.repeat(array[:1], 24, axis=0),
            np.rec.fromarrays(array.T, names="abcde"),
            array.astype(np.float32)[:, ::-1],
        ],
    )


def _npy(array, generator):
    """Return the bytes of an npy file, now and then with a header that lies."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asanyarray(array), version=pick(generator, [None, (1, 0), (2, 0), (3, 0)]))
    content = buffer.getvalue()
    if generator.random() < 0.25:
        shape = pick(
            generator, ["(10**9, 10**3)", "(1000000000, 100)", "(-1, 5)", "(24, 5, 1)", "(24,)", "()", "(2**70,)", "x"]
        )
        kind = pick(generator, ["'<f8'", "'<f8'", "'|O'", "'<U200000000'", "'<f3'", "[('a', '<f8')]", "3", "'>f4'"])
        header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.tobytes()
    return content


def _npz(array, generator):
    """Return the bytes of an npz file: several arrays, odd names, members that are no arrays, zeros that unpack."""
    members = {pick(generator, ["X", "arr_0", "data", "features", "y", "indptr"]) + ".npy": _npy(array, generator)}
    if generator.random() < 0.5:
        other = pick(generator, [b"", b"text", _npy(np.arange(24), generator), _npy(np.zeros((24, 3)), generator)])
        members[pick(generator, ["labels.npy", "notes.txt", "", "../up.npy", "X.npy", "format.npy"])] = other
    if generator.random() < 0.05:  # small in the file, 200 MB in memory, and not what is asked for
        members["big.npy"] = _npy(np.zeros(25_000_000), np.random.default_rng(0))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", pick(generator, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as file:
        for name, content in members.items():
            file.writestr(name or "empty", content)
    return buffer.getvalue()


def _sparse(generator):
    """Return the bytes of a sparse matrix, parts of which do not fit together."""
    matrix = good_files.rows(sparse=True)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    parts["format"] = np.array(pick(generator, [b"csr", b"csr", b"csc", b"coo", b"xyz", "csr"]))
    if generator.random() < 0.7:
        name = pick(generator, ["data", "indices", "indptr", "shape"])
        parts[name] = hostile_array(parts[name], generator)
    if generator.random() < 0.1:
        del parts[pick(generator, sorted(parts))]
    if generator.random() < 0.1:
        parts["shape"] = np.array(pick(generator, [(10**9, 5), (24, 10**12), (-1, 5), (24, 5, 1)]))
    buffer = io.BytesIO()
    if generator.random() < 0.3:
        scipy.sparse.save_npz(buffer, matrix * pick(generator, [1, np.nan, 1e300, 0]))
    else:
        np.savez(buffer, **parts)
    return buffer.getvalue()
