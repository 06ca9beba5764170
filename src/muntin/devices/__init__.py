"""Devices: the kernels of panes and of the tree on the arrays of other libraries, such as PyTorch's on a GPU."""
