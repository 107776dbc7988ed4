"""What aclmem adds for Python: aclmem.torch, the memory pool as PyTorch's allocator."""
