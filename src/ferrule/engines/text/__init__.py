"""Text engines: any backend that continues a prompt, with our prompt, our constraint and our parser."""
