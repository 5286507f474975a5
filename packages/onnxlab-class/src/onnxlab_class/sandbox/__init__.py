"""Linux confinement of a process: namespaces, Landlock, seccomp-bpf, limits, and a watcher outside."""
