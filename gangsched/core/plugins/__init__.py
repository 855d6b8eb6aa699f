"""The filters and scores that are built in, named as kube-scheduler's plug-ins."""
