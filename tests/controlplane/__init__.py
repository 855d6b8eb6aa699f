"""A real control plane for tests: etcd, kube-apiserver, controllers, and KWOK in the place of kubelets."""
