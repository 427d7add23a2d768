"""Tables in Dask collections: the partitions stay where they are, and only sums over them come back."""
