"""Tables: read, validated, labelled and weighed, in memory or in remote shards."""
