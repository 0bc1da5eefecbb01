"""HTTP/2 as gRPC needs it: frames and header blocks (HPACK), without sockets or streams."""
