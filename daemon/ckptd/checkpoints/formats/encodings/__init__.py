"""Readers of containers and encodings that several formats share: zip, pickle, HDF5, zarr, protocol buffers."""
