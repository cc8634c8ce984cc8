"""Reads safetensors files with numpy alone, so that every Python with numpy can take our variables and batches."""

import json
import struct

import numpy

DTYPES = {
    "BOOL": numpy.bool_,
    "U8": numpy.uint8,
    "I32": numpy.int32,
    "I64": numpy.int64,
    "F32": numpy.float32,
    "F64": numpy.float64,
}


def read(path):
    """The tensors of a file by name."""
    with open(path, "rb") as file:
        (header_size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_size))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        flat = numpy.frombuffer(data[first:last], dtype=DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"]).copy()
    return tensors
