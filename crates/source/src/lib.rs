//! Getting a program's files: git, Flux artifacts, archives. Nothing here knows Kubernetes.
