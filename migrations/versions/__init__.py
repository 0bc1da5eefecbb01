"""One module for each dated step."""
