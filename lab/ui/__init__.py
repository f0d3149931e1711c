"""The live page: reads a run's history as it is written, or a finished one's, and shows it in a browser."""
