"""Lab 11: a decoder that keeps what it has read, in a cache whose length changes at every step."""
