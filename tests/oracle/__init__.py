"""What the service must answer, computed in NumPy float64 and written to be read.

Nothing here shares code with the C library: the oracle is its judge. tests/conformance checks the oracle
against the ONNX Attention cases, and the daemon against both.
"""
