"""Programs that show how KiteMQ is used."""
