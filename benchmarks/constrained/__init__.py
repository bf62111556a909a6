"""The default tuner with unknown constraints, beside other packages' tuners and random search."""
