"""Claims of six papers, computed again. Page papers, a paragraph for each."""
