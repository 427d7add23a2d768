"""Tables: read, validated, labelled and weighed, in memory or in shards elsewhere."""
