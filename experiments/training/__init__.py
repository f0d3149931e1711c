"""Cost of failures to training jobs of several sizes: the runs, and the page that is made of them."""
