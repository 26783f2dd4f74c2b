"""The search index: one file, made anew from what lies on disk, read without a lock.

`unit` what is found, `words` text to terms, `build` terms to a file, `reader` and `rank` a question to hits,
`marks` the places to highlight, `collect` the units of a store, `fresh` when the file has to be made anew.
"""
