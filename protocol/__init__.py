"""Encodes and decodes wire forms, bytes <-> typed values; imports nothing of the project."""
