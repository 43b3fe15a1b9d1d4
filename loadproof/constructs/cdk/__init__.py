"""What all constructs are made with: resources, statements, functions, buckets."""
