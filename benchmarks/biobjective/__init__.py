"""The tuner with two objectives, beside other packages' tuners and random search."""
