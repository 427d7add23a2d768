"""Other tools with private estimators in them. Page tools: "What was tried"."""
