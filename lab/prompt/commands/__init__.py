"""Commands of the prompt: those that show, those that change the lab, captures and reports."""
