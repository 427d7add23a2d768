"""Tables in collections of Dask: partitions stay where they are, and sums over them come back."""
