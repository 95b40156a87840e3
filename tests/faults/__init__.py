"""Files under faults of the disk, see `make test-faults`."""
