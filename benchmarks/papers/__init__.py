"""Claims of five papers, computed again. Page papers, a section for each."""
