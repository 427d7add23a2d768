"""What estimators share: validation, labels, plans, draws, predictions, diagnostics."""
