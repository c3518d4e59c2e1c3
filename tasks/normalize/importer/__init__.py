"""One importer per format; importers combine the decoders of `tasks.normalize.decoder`."""
