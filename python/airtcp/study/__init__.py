"""Studies: experiments, figures and findings about one question, as files. See docs/studies.md."""
