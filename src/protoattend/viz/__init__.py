"""Figures and pages: the only room that imports matplotlib and jinja2."""
