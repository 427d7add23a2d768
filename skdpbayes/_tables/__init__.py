"""Tables: read, validated, labelled and weighed, in memory or in shards elsewhere.

    collections <- rows <- dask <- read, blockwise

`read` is where fits begin, and `blockwise` where methods of single rows do. `columns` reads what scores
compare.
"""
