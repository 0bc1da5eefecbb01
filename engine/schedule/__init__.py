"""Messages that wait for their time: the delay levels, admission to them and release from them."""
