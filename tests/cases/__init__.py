"""Cases, problems and fixtures that several tests share."""
