"""The live page's other end in a browser tab: lab and page share one interpreter."""
