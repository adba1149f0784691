"""The fast path in half precision on a GPU: fused kernels and the products and attention around them."""
