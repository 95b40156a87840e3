"""Exports: C, JavaScript, SQL, ONNX, JSON and text."""
