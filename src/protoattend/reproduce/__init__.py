"""The paper's tables and figures, measured again: experiments as data, runs that are kept, a list of what is wanted."""
