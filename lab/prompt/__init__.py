"""The prompt of a lab that is up: its words, what goes on behind them, and the socket through which others use them."""
