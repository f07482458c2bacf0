//! Driving the Pulumi CLI. Nothing here knows gRPC or Kubernetes.
