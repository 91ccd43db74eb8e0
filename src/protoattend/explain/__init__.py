"""Why: prototypes, contrasts, counterfactuals, and how good prototypes are."""
