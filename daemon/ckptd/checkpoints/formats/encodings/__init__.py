"""Readers of encodings that several formats share: zip, pickle, HDF5, zarr."""
