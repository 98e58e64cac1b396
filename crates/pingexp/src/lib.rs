//! Reads the pickles of ping-exp without executing them. Pure: bytes in, values out.
