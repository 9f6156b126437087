"""Tables, plots and reports of what was found."""
